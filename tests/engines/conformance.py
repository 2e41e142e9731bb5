"""firn against other engines, case by case in one Spark session:

    conformance.py [--only TEXT]... [--list] [--keep FOLDER]

Prints a line for each case and the count at the end; status 1 if one failed. FIRN_PROGRAM is the command, FIRN_ENGINES the folder
that scripts/conformance fills."""
import argparse
import logging
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

import by_spark  # noqa: F401  (each of these registers its cases)
import by_java  # noqa: F401
import by_firn  # noqa: F401
import by_orca  # noqa: F401
import by_pyiceberg  # noqa: F401
import metadata_tables  # noqa: F401
import random_turns  # noqa: F401
import turns  # noqa: F401
from cases import CASES
from engines import Engines, Failed, Skipped, needs_environment, start_spark


def run_case(engines, case):
    begin = time.monotonic()
    text = ""
    try:
        case.run(engines)
        outcome = "ok"
    except Skipped as error:
        outcome, text = "skip", f"      {error}"
    except Failed as error:
        outcome, text = "FAIL", "      " + str(error).replace("\n", "\n      ")
    except Exception as error:  # an engine's own refusal: its first lines say which
        place = traceback.extract_tb(error.__traceback__)
        said = f"{type(error).__name__}: {error}".split("\nJVM stacktrace")[0].splitlines()
        lines = [said[0][:500]] + [line[:500] for line in said if line.startswith("Caused by")]
        lines += [f"at {one.filename.rsplit('/', 1)[-1]}:{one.lineno}: {one.line}" for one in place if "engines/" in one.filename][-3:]
        outcome, text = "FAIL", "      " + "\n".join(lines).replace("\n", "\n      ")
    print(f"{outcome:4}  {case.name} ({time.monotonic() - begin:.1f} s)" + (f"\n{text}" if text else ""), flush=True)
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this; may be given again")
    parser.add_argument("--list", action="store_true", help="their names alone")
    parser.add_argument("--keep", help="leave the tables in this folder")
    arguments = parser.parse_args()
    chosen = [case for case in CASES if not arguments.only or any(text in case.name for text in arguments.only)]
    if arguments.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not chosen:
        sys.exit(f"no case is called {arguments.only}")
    if not os.access(os.environ.get("FIRN_PROGRAM", ""), os.X_OK):
        needs_environment("FIRN_PROGRAM is not the firn command")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(arguments.keep or folder).absolute()
        (warehouse / "db").mkdir(parents=True, exist_ok=True)
        session = start_spark(warehouse, os.environ.get("FIRN_ENGINES", ".deps/engines"))
        logging.getLogger("SQLQueryContextLogger").disabled = True  # a failed case says what Spark said
        engines = Engines(warehouse, session)
        print(f"Spark {session.version} with Iceberg {session._jvm.org.apache.iceberg.IcebergBuild.version()}, "
              f"{len(chosen)} cases", flush=True)
        outcomes = [run_case(engines, case) for case in chosen]
        session.stop()
    counts = {outcome: outcomes.count(outcome) for outcome in ("ok", "skip", "FAIL")}
    print(f"{counts['ok']} passed, {counts['skip']} skipped, {counts['FAIL']} failed in {time.monotonic() - begin:.0f} s")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
