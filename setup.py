"""Packaging shim: all metadata is in pyproject.toml.

It maps the two top-level folders `export/` and `official_configs/` into the
package, which pyproject.toml alone cannot say for editable installs.
"""

from setuptools import setup

setup(
    package_dir={
        "albert_tf": "albert_tf",
        "albert_tf.export": "export",
        "albert_tf.official_configs": "official_configs",
    }
)
