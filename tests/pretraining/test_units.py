from albert_tf.pretraining.units import Limits, make_units


def test_units_are_consecutive_files_of_a_size(tmp_path):
    sizes = {"a": 30, "b": 80, "c": 10, "d.gz": 30, "e": 99, "f": 1}
    files = [tmp_path / name for name in sizes]
    for path, size in zip(files, sizes.values(), strict=True):
        path.write_bytes(b"x" * size)
    units = list(make_units(files, Limits(unit_bytes=100)))
    assert [unit.number for unit in units] == [0, 1, 2]
    assert [unit.text_bytes for unit in units] == [110, 10 + 3 * 30, 100]
    assert [file for unit in units for file in unit.files] == files
    [unit] = make_units(files, Limits())
    assert unit.files == tuple(files)
