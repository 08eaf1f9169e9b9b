import subprocess
import sys


def test_reading_does_not_load_tensorflow():
    code = (
        "import sys, importlib\n"
        "room = 'albert_tf.finetuning.'\n"
        "for module in ('examples', 'tables', 'text_files', 'library_datasets',"
        " 'text_classification.glue', 'multiple_choice.examples',"
        " 'token_classification.examples', 'question_answering.examples'):\n"
        "    importlib.import_module(room + module)\n"
        "sys.exit(bool({'tensorflow', 'numpy', 'datasets'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
