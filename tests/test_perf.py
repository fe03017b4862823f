"""Parts of perf/ that need neither its peers nor a quiet machine."""

from matplotlib import pyplot

from perf import test_growth as growth


def test_the_plot_of_growth_has_ticks_on_all_axes(tmp_path, monkeypatch):
    """At the sizes on the x axes, and several on the y axes, also where they are far shorter than a power of ten."""
    figures = []
    monkeypatch.setattr(growth, "OUTPUT", tmp_path)
    monkeypatch.setattr(pyplot, "close", figures.append)
    of_length = {
        "seconds, B=16": (8e-5, 2e-4, 7e-4, 5e-3, 4e-2),
        "bytes, B=16": (8_000, 300_000, 1_500_000, 7_500_000, 30_000_000),
    }
    of_batch = {"seconds, l=40": (3e-4, 9e-4, 3e-3), "bytes, l=40": (760_000, 880_000, 3_000_000)}
    assert "growth.png" in growth.plot({"lengths": growth.LENGTHS, "batches": growth.BATCHES, **of_length, **of_batch})
    (figure,) = figures
    monkeypatch.undo()
    pyplot.close(figure)
    for axes, sizes in zip(figure.axes, (growth.LENGTHS,) * 2 + (growth.BATCHES,) * 2, strict=True):
        low, high = axes.get_ylim()
        assert sum(low <= tick <= high for tick in axes.get_yticks()) >= 3
        assert [label.get_text() for label in axes.get_xticklabels()] == list(map(str, sizes))
