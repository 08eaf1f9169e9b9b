"""Reports of examples that cannot be used."""

from __future__ import annotations

from albert_tf.errors import InputError

POLICIES = ("stop", "skip")


class BadExamples:
    """Collects reports of examples that cannot be used.

    Attributes:
      policy: "stop" or "skip".
      counted: number of examples reported so far, which "skip" skips.
      lines: the first reports, "location: problem".
    """

    def __init__(self, policy: str = "stop", *, max_lines: int = 20) -> None:
        """Makes one that has seen nothing.

        Args:
          policy: "stop": the first bad example is an error; "skip": bad
            examples are left out, counted and listed.
          max_lines: reports that are kept.

        Raises:
          InputError: another policy.
        """
        if policy not in POLICIES:
            raise InputError(
                f"on_bad_example={policy!r} must be one of "
                f"{', '.join(POLICIES)}"
            )
        self.policy = policy
        self.counted = 0
        self.lines: list[str] = []
        self._max_lines = max_lines

    def report(self, location: str, problem: str) -> None:
        """Takes note of an example, which the caller then leaves out.

        Args:
          location: "file:line" or the like.
          problem: what is wrong, and what to do about it, in one line.

        Raises:
          InputError: the policy is "stop".
        """
        line = " ".join(f"{location}: {problem}".split())
        self.counted += 1
        if len(self.lines) < self._max_lines:
            self.lines.append(line)
        if self.policy == "stop":
            raise InputError(
                f"{line} (or leave such examples out: --on_bad_example=skip)"
            )

    def summary(self) -> str:
        """Returns the count and the kept reports, a line each."""
        if not self.counted:
            return "no bad examples"
        plural = "" if self.counted == 1 else "s"
        lines = [f"{self.counted} bad example{plural} left out", *self.lines]
        if more := self.counted - len(self.lines):
            lines.append(f"and {more} more")
        return "\n  ".join(lines)
