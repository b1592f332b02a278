"""Ends this process if a call uses too much processor time: a busy machine is no failure, an endless loop is."""

import faulthandler
import signal

MOST_SECONDS = 300  # by the clock, for a call that waits instead of computing

# Print where the call was, then end the process, which is what SIGPROF does by default.
faulthandler.register(signal.SIGPROF, chain=True)


def start(seconds):
    signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)


def stop():
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()
