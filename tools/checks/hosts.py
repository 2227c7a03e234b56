"""Hosts on this machine for tests of clusters: network namespaces on a bridge, a link each, that can be limited and cut.
Nothing is left behind, whatever happens: namespaces and bridge go, and what was started on them, when Python ends."""
import atexit, contextlib, ctypes, json, os, shutil, signal, subprocess, sys

TAG = f"tf{os.getpid() % 100000}"  # names of interfaces have 15 letters at most
BRIDGE = f"{TAG}br"
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def end_on_signals():
    """A signal ends Python as sys.exit() does, so that what is registered with atexit happens."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))


class Loopback:
    """The same without namespaces: every host is this machine, and no link can be cut."""

    def __init__(self):
        self.processes = []
        atexit.register(self.remove)
        end_on_signals()

    @staticmethod
    def address(host):
        return "127.0.0.1"

    @contextlib.contextmanager
    def inside(self, host):
        yield

    def start(self, host, command, **options):
        # Killed, Python cannot take it along.
        process = subprocess.Popen(command, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), **options)
        self.processes.append(process)
        return process

    def stop(self, processes):
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            self.processes.remove(process)

    def remove(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a second one would leave things behind
            signal.signal(number, signal.SIG_IGN)
        self.stop(list(self.processes))


class Hosts(Loopback):
    """Namespaces with one link each, of `mbit` each way; host i has address 10.77.0.(i+1)."""

    def __init__(self, count, mbit):
        self.names = []
        super().__init__()
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "link", "set", BRIDGE, "up")
        for i in range(count):
            name, inner = f"{TAG}h{i}", f"{TAG}i{i}"
            run("ip", "netns", "add", name)
            self.names.append(name)
            run("ip", "link", "add", self.outer(i), "type", "veth", "peer", "name", inner, "netns", name)
            run("ip", "link", "set", self.outer(i), "master", BRIDGE, "up")
            inside = ("ip", "-n", name)
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "link", "set", inner, "up")
            run(*inside, "addr", "add", f"{self.address(i)}/24", "dev", inner)
            # What leaves the host, and what comes to it: each way has the whole rate.
            limit = ("root", "tbf", "rate", f"{mbit}mbit", "burst", "32kb", "latency", "50ms")
            run("tc", "-n", name, "qdisc", "add", "dev", inner, *limit)
            run("tc", "qdisc", "add", "dev", self.outer(i), *limit)

    @staticmethod
    def make_or_skip(count, mbit):
        """Ends the program as skipped where hosts cannot be made."""
        if os.geteuid() != 0:
            skip("hosts in network namespaces need root")
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                skip(f"there is no '{tool}' here: install iproute2")
        try:
            return Hosts(count, mbit)
        except subprocess.CalledProcessError as error:
            skip(f"'{' '.join(error.cmd)}' is not permitted here: {error.stderr.strip()}")

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    @staticmethod
    def outer(host):
        return f"{TAG}o{host}"

    @contextlib.contextmanager
    def inside(self, host):
        """Sockets that are made here are the host's."""
        with open("/proc/self/ns/net") as ours, open(f"/run/netns/{self.names[host]}") as theirs:
            if libc.setns(theirs.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                libc.setns(ours.fileno(), CLONE_NEWNET)

    def start(self, host, command, **options):
        # ip becomes the command, so that the process is the command's.
        return super().start(host, ["ip", "netns", "exec", self.names[host], *command], **options)

    def traffic(self, host):
        """Bytes that have gone through its link, both ways."""
        text = run("ip", "-n", self.names[host], "-s", "-j", "link", "show", "dev", f"{TAG}i{host}")
        stats = json.loads(text)[0]["stats64"]
        return stats["tx"]["bytes"] + stats["rx"]["bytes"]

    def cut(self, host):
        run("ip", "link", "set", self.outer(host), "down")

    def mend(self, host):
        run("ip", "link", "set", self.outer(host), "up")

    def remove(self):
        super().remove()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)  # its link goes with it
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)
        self.names = []
