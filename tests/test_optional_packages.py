import pytest

from albert_tf.errors import InputError
from albert_tf.optional_packages import import_package, import_packages


def test_modules_are_imported_in_order():
    json, path = import_packages(["json", "os.path"], "tests")
    assert json.loads("[]") == []
    assert path.basename("a/b") == "b"
    assert import_package("json") is json


@pytest.mark.parametrize(
    ("names", "packages", "projects"),
    [
        (["absent.part"], "absent", "absent"),
        (["json", "absent"], "json and absent", "json absent"),
        (["sklearn.absent"], "sklearn", "scikit-learn"),
        (["tensorflow_absent"], "tensorflow_absent", "tensorflow-absent"),
        (["backports.absent"], "backports.absent", "backports.absent"),
    ],
)
def test_absent_packages_are_named_as_they_are_installed(
    names, packages, projects
):
    with pytest.raises(InputError) as caught:
        import_packages(names, "tests")
    message = str(caught.value)
    assert message.startswith(f"tests need {packages}, which cannot be")
    assert message.endswith(f": pip install {projects}")
