"""What strangers, crashes and full disks do to the library, at random and from a seed.

    python -m stress --seed 0 --kills 100 --tables 5000 --models 5000 --calls 2000

Every case follows from the seed and its number alone: ``--only tables:1234`` repeats one. Whatever
is tried runs in a child process, so that a crash is noticed and put down to the case that caused
it. ``docs/reliability.rst`` says what counts as a failure, and what was found.
"""
