"""Best fit as a process (docs/simulator/doors.md): hosts in use first, then the least free share, binding first."""

import json
import sys


def main() -> None:
    """Answer each request until the input ends."""
    capacity: list[list[int]] = json.loads(sys.stdin.readline())["hosts"]
    free, n_running = [list(host) for host in capacity], [0] * len(capacity)
    placed: dict[int, tuple[int, list[int]]] = {}
    print('{"protocol": 1, "name": "best-fit in Python"}', flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        for row in request["ended"]:
            host, held = placed.pop(row)
            n_running[host] -= 1
            free[host] = [room + amount for room, amount in zip(free[host], held, strict=True)]
        need, best, chosen = request["need"], None, None
        for host, room in enumerate(free):
            left = [have - amount for have, amount in zip(room, need, strict=True)]
            shares = [rest / whole if whole else 0.0 for rest, whole in zip(left, capacity[host], strict=True)]
            if min(left) >= 0 and (best is None or (n_running[host] == 0, *shares) < best):
                best, chosen = (n_running[host] == 0, *shares), host
        if chosen is not None:
            placed[request["request"]] = chosen, need
            n_running[chosen] += 1
            free[chosen] = [have - amount for have, amount in zip(free[chosen], need, strict=True)]
        print(json.dumps({"host": chosen}), flush=True)


if __name__ == "__main__":
    main()
