"""A PostgreSQL server in a folder of its own, with every commit synced."""
import contextlib
import os
import pathlib
import pwd
import signal
import subprocess
import sys
import time


def _programs():
    for path in sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True):
        if (path / "postgres").exists():
            return path
    sys.exit("bench: PostgreSQL is not installed; apt-get install postgresql")


def _user():
    """PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def postgres(folder, sql="", **settings):
    """A libpq URL; the server ends with the context. `folder` is there and empty; `sql` runs first; `settings` are the
    server's, beyond its defaults."""
    programs, who = _programs(), _user()
    if who:
        for path in (folder.parent, folder):
            os.chmod(path, 0o755)
        os.chown(folder, who["user"], who["group"])
    quiet = {"stdout": subprocess.DEVNULL, "cwd": folder, **who}
    subprocess.run([programs / "initdb", "--pgdata", folder / "data", "--auth", "trust", "--username", "bench",
                    "--encoding", "UTF8", "--no-locale"], check=True, **quiet)
    settings = {"listen_addresses": "", "unix_socket_directories": folder, "synchronous_commit": "on", "fsync": "on", **settings}
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    with open(folder / "log", "w") as out:
        server = subprocess.Popen([programs / "postgres", "-D", folder / "data", *options], stderr=out, **quiet)
    try:
        for _ in range(200):
            if subprocess.run([programs / "pg_isready", "--host", folder], stdout=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.05)
        else:
            sys.exit(f"bench: PostgreSQL does not start: {(folder / 'log').read_text()}")
        url = f"postgresql:///postgres?host={folder}&user=bench"
        if sql:
            subprocess.run([programs / "psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", url, "--command", sql], check=True)
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # at once, its children too
        server.wait()
