"""joblib: a worker that reaches its cap catches the MemoryError and goes on by halves.

    pyhost --cap 96M --stats='file=reports/%p.json' with_joblib.py
"""

from joblib import Parallel, delayed

from work import RANGES, finish, total_within_the_cap


def main():
    finish(Parallel(n_jobs=2)(delayed(total_within_the_cap)(*numbers) for numbers in RANGES))


if __name__ == "__main__":
    main()
