from parsers.data import synthetic
from parsers.data.corpus import split_labeled


def test_the_labelled_part_is_seeded():
    trees = synthetic.sentences("train", count=50)
    chosen, others = split_labeled(trees, 0.1, seed=1)
    assert len(chosen) == 5 and len(others) == 45
    assert {id(s) for s in chosen + others} == set(map(id, trees))
    again, other_seed = (split_labeled(trees, 0.1, seed)[0] for seed in (1, 2))
    assert list(map(id, again)) == list(map(id, chosen)) != list(map(id, other_seed))
    assert len(split_labeled(trees, 1e-9, 1)[0]) == 1 and split_labeled(trees, 1.0, 1)[1] == []
