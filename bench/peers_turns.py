# SPDX-License-Identifier: MIT
"""The loads of a row: a process for each, and their order."""
import contextlib
import json
import os
import re
import subprocess
import threading

HERE = os.path.dirname(os.path.abspath(__file__))


class LoadError(Exception):
    pass


class Child:
    """A process that makes one load.

    It is killed if it prints nothing for --limit seconds.
    """

    def __init__(self, bench, peer, model):
        env = dict(os.environ, **peer.env)
        device = peer.loader != "plain" and bench.args.device
        if peer.loader:
            path = bench.env.path(peer.ahead)
            if path:
                env["PYTHONPATH"] = os.pathsep.join(path)
            job = {"loader": peer.loader, "options": peer.options,
                   "paths": model.paths, "read": bool(model.python),
                   "device": device and device.replace("CUDA", "cuda:")}
            argv = [bench.env.python, os.path.join(HERE, "peers_child.py"),
                    json.dumps(job)]
        else:
            argv = [bench.program, model.path] + [device] * bool(device)
            if model.python:
                argv.append("read")
            elif model.mapped:
                argv.append("map")
        self.limit = bench.args.limit
        self.late = False
        self.process = subprocess.Popen(
            argv, env=env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=bench.log)
        self.log_at = bench.log.tell()
        self.log = bench.log

    def fail(self):
        """The last line that it printed is the reason."""
        self.close()
        if self.late:
            raise LoadError(f"ended: silent for {self.limit:g} s")
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            f.seek(self.log_at)
            lines = [x.strip() for x in f if x.strip()]
        why = (lines or [f"exit status {self.process.returncode}"])[-1]
        raise LoadError(re.sub(r"^[\w.]+: ", "", why)[:200])

    def close(self):
        self.process.kill()
        self.process.wait()

    def too_late(self):
        self.late = True
        self.process.kill()

    @contextlib.contextmanager
    def limited(self):
        timer = threading.Timer(self.limit, self.too_late)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def line(self):
        with self.limited():
            text = self.process.stdout.readline()
        return text if text else self.fail()

    def ready(self):
        word, versions = self.line().split(" ", 1)
        assert word == "ready"
        return json.loads(versions)

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.line())

    def digests(self):
        found = {}
        with self.limited():
            for line in self.process.stdout:
                digest, name = line.rstrip("\n").split("  ", 1)
                found[name] = digest
            self.process.wait()
        if self.process.returncode:
            self.fail()
        return found


class Turn:
    def __init__(self, number, peer):
        self.number = number        # of the round
        self.peer = peer
        self.tries = 0


class Turns:
    """The peers in order; the next one's process gets ready in advance."""

    def __init__(self, bench, peers, model):
        self.bench = bench
        self.model = model
        self.best = {}              # (round, key): the least disturbed
        self.failed = {}            # key: why
        self.queue = []
        self.child = None           # for queue[0]
        for number in range(bench.args.rounds):
            # Forwards, then backwards; two rounds later another is first.
            at = number // 2 % len(peers)
            order = peers[at:] + peers[:at]
            self.queue += [Turn(number, p) for p in order[::1 - number % 2 * 2]]

    def left(self):
        return bool(self.queue)

    def take(self):
        child = self.child or Child(self.bench, self.queue[0].peer, self.model)
        self.child = None
        return self.queue.pop(0), child

    def done(self, turn, result):
        """Record it; a disturbed load of the same peer is tried again."""
        key = turn.number, turn.peer.key
        turn.tries += 1
        kept = self.best.get(key)
        if not kept or result["others"] < kept["others"]:
            self.best[key] = kept = dict(result, round=turn.number)
        kept["tries"] = turn.tries
        if kept["disturbed"] and turn.tries < self.bench.args.tries:
            self.queue.insert(0, turn)
        if self.queue:
            self.child = Child(self.bench, self.queue[0].peer, self.model)

    def fail(self, peer, why):
        self.failed[peer.key] = why
        self.queue = [t for t in self.queue if t.peer is not peer]
        if self.child:
            self.child.close()
            self.child = None

    def record(self, peer):
        runs = [run for (_, key), run in sorted(self.best.items())
                if key == peer.key]
        return {"key": peer.key, "title": peer.title, "runs": runs,
                "settings": dict(peer.options, **peer.env),
                "failed": self.failed.get(peer.key)}
