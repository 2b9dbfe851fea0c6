"""A Ray cluster of two nodes on this machine, each with one logical GPU, until its input ends.

Prints the address that others join it by.
"""

import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 5, "num_gpus": 1, "object_store_memory": 200_000_000}

cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
cluster.add_node(**NODE)
cluster.wait_for_nodes()
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
