"""The thread pool: errors, two callers at once, and forks."""

import math
import multiprocessing
import os
import threading
import time
import weakref

import pytest
import torch
from numba import njit

from tests.threads import threads
from tritree.cpu import backend as cpu
from tritree.cpu import threads as pool
from tritree.cpu.groups import finish, take


@pytest.fixture(autouse=True)
def _many_threads(monkeypatch):
    monkeypatch.setattr(cpu, "WORTH_A_THREAD", 1)
    with threads(3):
        yield


take_part, finish_part = njit(lambda progress: take(progress)), njit(lambda progress: finish(progress))


def run(function, parts, threads):
    """Has the pool call function(part), in Python."""

    def work(progress):
        while (part := take_part(progress)) < parts:
            function(part)
            finish_part(progress)

    pool.run(work, parts, threads)


def test_every_part_is_taken_once():
    done = []
    run(done.append, 100, threads=4)
    assert sorted(done) == list(range(100))


def test_one_thread_is_the_caller_alone():
    workers = set()
    run(lambda _: workers.add(threading.get_ident()), 50, threads=1)
    assert workers == {threading.get_ident()}


def test_workers_take_part():
    meeting = threading.Barrier(3, timeout=30)
    run(lambda _: meeting.wait(), 3, threads=3)  # would time out if fewer than three threads were at work


def test_the_caller_waits_for_a_slow_worker():
    here, done = threading.get_ident(), []
    begun = threading.Event()

    def work(part):
        if threading.get_ident() == here:
            begun.wait(30)
        else:
            begun.set()
            time.sleep(0.2)
        done.append(part)

    run(work, 2, threads=2)
    assert sorted(done) == [0, 1]


@pytest.mark.parametrize("failing", ["caller", "worker"])
def test_an_error_reaches_the_caller(failing):
    here = threading.get_ident()
    both = threading.Barrier(2, timeout=30)

    def fail(_):
        both.wait()
        if (threading.get_ident() == here) == (failing == "caller"):
            raise ZeroDivisionError(failing)

    with pytest.raises(ZeroDivisionError, match=failing):
        run(fail, 2, threads=2)
    test_every_part_is_taken_once()


def test_workers_keep_nothing_alive():
    """A job refers to the caller's tensors. A worker that waits for the next job must not refer to the last one."""

    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    run(lambda _, thing=thing: None, 10, threads=3)
    del thing
    for _ in range(100):
        if gone() is None:
            break
        time.sleep(0.05)
    assert gone() is None


def test_workspaces_are_aligned_and_one_per_thread():
    here = pool.workspace(1000, "float64")
    assert here.ctypes.data % 64 == 0 and here.size == 1000
    assert pool.workspace(500, "float32").ctypes.data == here.ctypes.data
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(pool.workspace(1000, "float64").ctypes.data))
    thread.start()
    thread.join()
    assert elsewhere[0] != here.ctypes.data


def work():
    """A batch that three threads share."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(64, 21, 21, generator=generator)
    return scores, torch.full((64,), 20)


def test_two_callers_at_once():
    scores, lengths = work()
    expected = cpu.inside_outside(scores, lengths, False)
    failures = []

    def call():
        for _ in range(30):
            log_z, marginals = cpu.inside_outside(scores, lengths, False)
            if not (torch.equal(log_z, expected[0]) and torch.equal(marginals, expected[1])):
                failures.append(1)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not failures and not any(caller.is_alive() for caller in callers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_in_child_and_parent():
    scores, lengths = work()
    expected = cpu.inside_outside(scores, lengths, False)[0].tolist()  # the workers exist now
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child():
        torch.set_num_threads(3)
        send.send(cpu.inside_outside(scores, lengths, False)[0].tolist())
        test_workers_take_part()  # the parent's workers do not exist here: new ones are started

    process = context.Process(target=child)
    process.start()
    assert receive.poll(60), "the child hangs"
    assert receive.recv() == expected
    process.join(30)
    assert process.exitcode == 0
    assert cpu.inside_outside(scores, lengths, False)[0].tolist() == expected


class Dataset(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        torch.set_num_threads(2)
        scores, lengths = work()
        return cpu.inside(scores + index, lengths, False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_the_workers_of_a_data_loader():
    scores, lengths = work()
    log_z = cpu.inside(scores, lengths, False)
    loader = torch.utils.data.DataLoader(
        Dataset(), batch_size=2, num_workers=2, timeout=60, multiprocessing_context="fork"
    )
    results = torch.cat(list(loader))
    for index, result in enumerate(results):
        torch.testing.assert_close(result, log_z + 20 * index, rtol=1e-6, atol=1e-6)
    assert not any(math.isnan(x) for x in results.flatten().tolist())
