"""Drives the PyPI client; the lines that it reads and writes are in ../doc.go."""

import asyncio
import sys

from saro_ticketing import TicketBroker, TicketError


async def main(addrs: str, token: str, ca: str) -> None:
    broker = TicketBroker(addrs.split(","), token=token, tls=ca or None)
    tickets = {}
    tasks = set()

    async def run(op: str, name: str, *rest: str) -> str:
        if op == "ready":
            return f"ready {await broker.wait_ready(float(rest[0]))}".lower()
        if op == "acquire":
            wait, lease, key = rest
            tickets[name] = await broker.acquire(key, float(wait), float(lease))
            return f"granted {tickets[name].token}"
        return f"released {await tickets[rest[0]].release()}".lower()

    async def answer(line: str) -> None:
        op, name, *rest = line.split()
        try:
            outcome = await run(op, name, *rest)
        except TicketError as err:
            outcome = f"failed {err.kind}"
        print(name, outcome, flush=True)

    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        task = asyncio.create_task(answer(line.decode()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main(*sys.argv[1:]))
