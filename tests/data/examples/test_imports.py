import subprocess
import sys


def test_reading_does_not_load_tensorflow():
    code = (
        "import sys, pkgutil, importlib, albert_tf.data.examples as room\n"
        "for module in pkgutil.iter_modules(room.__path__):\n"
        "    importlib.import_module(f'{room.__name__}.{module.name}')\n"
        "sys.exit(bool({'tensorflow', 'numpy', 'datasets'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
