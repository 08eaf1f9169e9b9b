"""Maps the top-level `export/` and `official_configs/` into the package.

All metadata is in pyproject.toml.
"""

from setuptools import setup

setup(
    package_dir={
        "albert_tf": "albert_tf",
        "albert_tf.exporting": "export",
        "albert_tf.official_configs": "official_configs",
    }
)
