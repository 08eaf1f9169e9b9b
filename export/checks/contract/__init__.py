"""A program that checks an export without albert_tf.

`check_export` runs it as `python -m contract` from the folder above, in which
it is a package of its own. So its modules import each other relatively, and
nothing but the standard library, NumPy, TensorFlow and tensorflow_text.
"""
