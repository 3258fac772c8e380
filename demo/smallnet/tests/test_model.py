from __future__ import annotations

import pytest
import torch
from smallnet.model import WORDS, Classifier


def test_a_document_has_a_score_for_each_class() -> None:
    model = Classifier(width=8, depth=2, classes=3)
    assert model(torch.randint(WORDS, (5, 7))).shape == (3,)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(IndexError, match="from 0 to"):
        Classifier(width=8)(torch.full((5, 7), WORDS))
