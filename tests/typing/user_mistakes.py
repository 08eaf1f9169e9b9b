"""A user's mistakes, for the type checker: each marked line must fail."""

import albert_tf

albert_tf.AlbertConfig(hidden_sizee=3)  # error
albert_tf.FinetuneConfig(task="sst2", init_from="x")  # error
albert_tf.AlbertConfig(hidden_size="large")  # error
albert_tf.ExportConfig(model="a", output="b", kind="c")  # error
albert_tf.export("run")  # error
albert_tf.AlbertEncoderr()  # error
