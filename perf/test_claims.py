"""The paper's claims: the number of terms, counted and in closed form; and the time of a training step, measured."""

from perf import constants
from perf.counting import into_root, one_sum, paper_relaxed, paper_rules, tritree_relaxed, tritree_rules
from perf.timing import again_unless


def test_counts(benchmark, report):
    benchmark.pedantic(assert_closed_forms, rounds=1)
    N = 61
    T, ours, paper = one_sum(N), tritree_rules(N), paper_rules(N)
    report.notes.append(
        f"terms for l = {N - 1}, in sums of (N³ − N)/6: "
        f"paper inside {paper.up / T:.2f} (claimed 4), "
        f"inside and outside {(paper.up + paper.down) / T:.2f} (12), "
        f"perturb-and-parse {paper_relaxed(N) / T:.2f} (24); "
        f"tritree inside {ours.up / T:.2f} (3), "
        f"inside and outside {(ours.up + ours.down) / T:.2f} (9), "
        f"relaxed tree {tritree_relaxed(N) / T:.2f} (21)"
    )


def assert_closed_forms():
    for N in range(1, 62):
        T, R = one_sum(N), into_root(N)
        paper, ours = paper_rules(N), tritree_rules(N)
        assert paper.up == 4 * T - 2 * R
        assert paper.down == 8 * T - 4 * R
        assert 2 * (paper.up + paper.down) == 24 * T - 12 * R
        assert ours.up == 3 * T - R
        assert ours.down == 6 * T - 2 * R
        assert 3 * ours.up + 2 * ours.down == 21 * T - 7 * R


def orders_hold(fits: constants.Fits) -> bool:
    of_systems = [
        [by_step[name].seconds[-1] for name in ("inside", "marginals", "relaxed")] for by_step in fits.values()
    ]
    return all(1.2 * lap < gap and 1.2 * gap < dppp for lap, gap, dppp in of_systems)


def test_constants(benchmark, report):
    """Only what noise cannot change is asserted: the order of the systems, as the paper counts."""
    constants.check_answers()
    fits = benchmark.pedantic(again_unless, args=(orders_hold, lambda: constants.measure(0.2)), rounds=1)
    constants.save(fits)
    report.tables.append(constants.table(fits))
    report.notes += [f"claims: {line}" for line in constants.findings(fits)]
    assert orders_hold(fits)
    fastest, alike = (fits[arithmetic]["inside"].seconds[-1] for arithmetic in ("fastest", "alike"))
    assert 2 * fastest < alike, "the wide scores were not too wide for the linear domain"
