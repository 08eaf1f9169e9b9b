"""Reads slices of a dataset on another host, which is another process here.

Prints the job that each slice was read by, and the slice.
"""

import socket
import subprocess
import sys

SERVER = """
import sys
import tensorflow as tf
cluster = {"worker": [sys.argv[1]]}
tf.distribute.Server(cluster, job_name="worker", task_index=0).join()
"""


def read(address):
    import tensorflow as tf

    from albert_tf.training.input import per_replica_slices

    # Waits for the server.
    tf.config.experimental_connect_to_cluster(
        tf.train.ClusterSpec({"worker": [address]})
    )
    batches = tf.data.Dataset.range(8).map(lambda x: 2 * x).batch(4)
    with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
        slices = per_replica_slices(
            batches, tf.distribute.InputContext(2, 1, 2)
        )
        for values in slices:
            device = tf.DeviceSpec.from_string(values.device)
            print(device.job, ",".join(map(str, values.numpy())))


def main():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    server = subprocess.Popen([sys.executable, "-c", SERVER, address])
    try:
        read(address)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
