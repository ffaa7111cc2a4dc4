"""Runs the cases of a suite one after the other, each with a deadline, and says which failed.

It knows no SDK: the suites for different versions of one SDK cannot share more than this.
"""
import asyncio
import sys
import traceback
import uuid

# Longer than anything takes here, the machine being busy included.
PATIENCE = 30


class Cases:
    """The cases of one suite."""

    def __init__(self, suite):
        self.suite = suite
        self.done = 0
        self.failed = []

    async def run(self, name, case):
        """Runs one; a failure is printed and counted, and the others go on."""
        title = f"{self.suite} · {name}"
        self.done += 1
        try:
            async with asyncio.timeout(PATIENCE):
                await case
        except Exception:
            self.failed.append(title)
            print(f"FAIL {title}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ok   {title}", flush=True)

    def end(self):
        """Leaves with what the suite came to."""
        print(f"{self.suite}: {self.done - len(self.failed)} of {self.done} passed", flush=True)
        sys.exit(1 if self.failed or not self.done else 0)


def named(prefix):
    """The id of a message that asks the conformance agent for a behaviour."""
    return f"{prefix}-{uuid.uuid4()}"


async def until(look, wanted):
    """Looks again and again until it is as wanted; the deadline is the case's own."""
    while True:
        seen = await look()
        if wanted(seen):
            return seen
        await asyncio.sleep(0.02)


def same(seen, expected):
    """Equal, or else both are shown."""
    assert seen == expected, f"saw {seen!r}, expected {expected!r}"
