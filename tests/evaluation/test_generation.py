"""Prompts as a Transformers model gets them: special tokens, padding, and a tokenizer that is left as it was."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from rubrank.evaluation.generation import make_generator  # noqa: E402

PROMPTS = [[{"role": "user", "content": "a b"}], [{"role": "user", "content": "a"}]]
WORDS = {"<s>": 0, "</s>": 1, "a": 2, "b": 3}


class EndingModel:
    """A model that remembers its inputs and answers "b"."""

    training = False
    device = "cpu"

    def eval(self):
        pass

    def train(self, mode):
        pass

    def generate(self, **inputs):
        self.inputs = inputs
        ids = inputs["input_ids"]
        return torch.cat([ids, torch.full((len(ids), 1), WORDS["b"])], dim=1)


def make_tokenizer(**settings):
    """A tokenizer of a base model: it puts <s> before a text, and has no token for padding."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel(WORDS, unk_token="a"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", padding_side="right", **settings
    )


def test_a_base_model_without_a_pad_token_gets_padded_prompts_with_their_first_token():
    model = EndingModel()
    tokenizer = make_tokenizer()
    assert make_generator(model, tokenizer)(PROMPTS) == ["b", "b"]
    # The shorter prompt comes first; it is padded on the left with </s>.
    assert model.inputs["input_ids"].tolist() == [[1, 0, 2], [0, 2, 3]]
    assert model.inputs["attention_mask"].tolist() == [[0, 1, 1], [1, 1, 1]]
    assert model.inputs["pad_token_id"] == WORDS["</s>"]
    assert tokenizer.pad_token is None
    assert tokenizer.padding_side == "right"


def test_a_chat_template_writes_the_special_tokens_itself():
    model = EndingModel()
    template = "<s> {% for m in messages %}{{ m['content'] }}{% endfor %}"
    make_generator(model, make_tokenizer(chat_template=template))(PROMPTS[:1])
    assert model.inputs["input_ids"].tolist() == [[0, 2, 3]]
