"""Sentences of 1, 500 and 1,000 words in one batch."""

import torch

import tritree
from tritree import TreeCRF
from tritree.conventions import live_words

LENGTHS = torch.tensor([1, 500, 1000])


def test_a_word_and_a_thousand():
    scores = torch.randn(3, 1001, 1001)
    scores[:, :, 0] = torch.nan
    dist = TreeCRF(scores, LENGTHS, validate_args=False)
    words = live_words(LENGTHS, 1001)
    torch.testing.assert_close(dist.marginals.sum(-2), words.float(), rtol=0, atol=1e-4)
    best, heads = tritree.viterbi(scores, LENGTHS)
    samples = tritree.sample(scores, LENGTHS, 2, generator=torch.Generator().manual_seed(1))
    for trees in (heads.unsqueeze(0), samples):
        assert ((trees >= 0) == words).all() and dist.support.check(trees).all()
        assert (dist.log_prob(trees) <= 1e-3).all()
    assert (best <= tritree.log_partition(scores, LENGTHS)).all()
    entropy, most = dist.entropy(), LENGTHS * torch.tensor(6.75).log()
    assert entropy[0] == 0 and (entropy >= 0).all() and (entropy <= most).all()
    assert dist.log_partition[0] == scores[0, 0, 1]
    alone = TreeCRF(scores[1:2, :501, :501], LENGTHS[1:2], validate_args=False)
    assert torch.equal(alone.marginals, dist.marginals[1:2, :501, :501]) and alone.entropy() == entropy[1]
