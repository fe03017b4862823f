import torch

from tests.parsers.helpers import small_data, tiny_options


def test_unlabelled_batches_go_on_where_they_were():
    data, _ = small_data(tiny_options("gap", "--unlabeled-batch-size=7"), count=5, unlabeled=30)
    stream = data.unlabeled_forever()
    first = [next(stream).words for _ in range(12)]  # more than two passes of five batches
    assert sum(map(len, first[:5])) == 30
    follow, jump = data.unlabeled_forever(start=12), None
    expected = [next(follow).words for _ in range(3)]
    jump = data.unlabeled_forever(start=12)  # not where the stream is now: it is started again
    assert all(torch.equal(a, next(jump).words) for a in expected)
    assert sum(len(batch.examples) for batch in data.unlabeled_batches()) == 30
    assert all(batch.heads is None for batch in data.unlabeled_batches())
