"""Runs the code of model cards, each in the folder of its export.

Usage: code_of_cards.py [FOLDER CODE.py]...
"""

import os
import runpy
import sys

if __name__ == "__main__":
    for folder, code in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        os.chdir(folder)
        runpy.run_path(code)
    assert "albert_tf" not in sys.modules
