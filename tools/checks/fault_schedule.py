"""What happens to a cluster, and when, as a pure function of a seed: faults of workers, servers and managers, each kind
drawn by itself, so that leaving one out does not change the others."""
import random
from dataclasses import dataclass

LEASE_S = 3.0  # of members in the registry, as src/parallel/servers/registry/membership.h has it


@dataclass(frozen=True)
class Fault:
    at: float  # seconds from the first one's time; of a server: at the earliest
    role: str
    index: int
    what: str  # "kill" (-9, and started anew), "stop" (SIGSTOP, then SIGCONT), "cut" (off the network, then back)
    lasts: float  # seconds, until it is undone

    def __str__(self):
        words = {"kill": "is killed, and started anew after", "stop": "is stopped for", "cut": "is cut off for"}
        return f"{self.at:6.1f} s  {self.role} {self.index} {words[self.what]} {self.lasts:.1f} s"


# By role: seconds between two faults, from and to. Servers' are drawn closer than they can come: each waits until the
# cluster has recovered from the one before.
GAPS = {"worker": (4.0, 12.0), "server": (4.0, 10.0), "manager": (12.0, 24.0)}


def schedule(seed, seconds, members, kinds):
    """`members`: by role, how many; `kinds`: of the faults, in a fixed order."""
    faults = []
    for role, count in members.items():
        draw = random.Random(f"{seed} {role}").random  # its sequence is the same in every version of Python
        between = lambda least, most: round(least + (most - least) * draw(), 1)
        pick = lambda items: items[int(draw() * len(items))]
        busy = [0.0] * count  # until when each has a fault
        at = 0.0
        while True:
            at = round(at + between(*GAPS[role]), 1)
            if at > seconds:
                break
            index, what = pick(range(count)), pick(kinds)
            # Half of the pauses are too short for anybody to be given up.
            short = draw() < 0.5
            if what == "kill":
                lasts = between(0.2, 3.0)
            else:
                lasts = between(0.2, 0.5 * LEASE_S) if short else between(1.6 * LEASE_S, 3 * LEASE_S)
            if busy[index] > at:
                continue
            busy[index] = at + lasts + 1
            faults.append(Fault(at, role, index, what, lasts))
    return sorted(faults, key=lambda fault: (fault.at, fault.role))
