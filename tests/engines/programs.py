"""Runs firn and hyp, whose paths come from the environment (FIRN_PROGRAM, HYP_PROGRAM)."""
import glob
import os
import re
import subprocess


def run(program, *words, cwd=None, stdin=None):
    done = subprocess.run([os.environ[program], *map(str, words)], cwd=cwd, input=stdin, capture_output=True)
    assert done.returncode == 0, f"{program} {words} ended with {done.returncode}: {done.stderr.decode()}"
    return done.stdout.decode()


def firn(*words):
    return run("FIRN_PROGRAM", *words)


def newest_metadata(table):
    """The metadata file of a filesystem table's highest version."""
    versions = {int(re.search(r"/v(\d+)\.", path).group(1)): path for path in glob.glob(f"{table}/metadata/v*.metadata.json")}
    return versions[max(versions)]
