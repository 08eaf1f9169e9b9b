from albert_tf.data.shards import Limits, group_files


def test_files_are_grouped_by_size(tmp_path):
    sizes = {"a": 30, "b": 80, "c": 10, "d.gz": 30, "e": 99, "f": 1}
    files = [tmp_path / name for name in sizes]
    for path, size in zip(files, sizes.values(), strict=True):
        path.write_bytes(b"x" * size)
    groups = list(group_files(files, Limits(group_bytes=100)))
    assert [group.number for group in groups] == [0, 1, 2]
    assert [group.text_bytes for group in groups] == [110, 10 + 3 * 30, 100]
    assert [file for group in groups for file in group.files] == files
    [group] = group_files(files, Limits())
    assert group.files == tuple(files)
