"""Ray: a task that passes its worker's cap catches the MemoryError and goes on by halves.

    pyhost --cap 192M --stats='file=reports/%p.json' with_ray.py

Ray's own Python processes, such as its monitor, run under the host and its cap, too.
"""

import os
import sys

import ray

from work import RANGES, finish, total_within_the_cap


def main():
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # where the workers find work.py
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", runtime_env={"env_vars": variables})
    task = ray.remote(total_within_the_cap)
    finish(ray.get([task.remote(*numbers) for numbers in RANGES]))
    ray.shutdown()


if __name__ == "__main__":
    main()
