"""Train the translator that the course ships: `python -m benchmarks.train_translator` writes course_lib/translator.pt.

The same machine and the same version of torch give the same file again.
"""

from __future__ import annotations

import torch

from course_lib.decoding import bleu, exact_match, generate
from course_lib.training import Batch, cosine_rate, fit, print_progress
from course_lib.transformer import Transformer, cross_attention_weights
from course_lib.translation import (
    BOS,
    EOS,
    MAX_WORDS,
    PAD,
    WEIGHTS,
    Pair,
    encode_pairs,
    french_vocabulary,
    load_translator,
    make_data,
    new_translator,
    random_batches,
    save_translator,
)
from course_lib.training import shift_right


def train_translator(seed: int, steps: int = 1000, report=None) -> Transformer:
    torch.manual_seed(seed)
    model = new_translator()
    source, targets = encode_pairs(make_data().train)
    batches = random_batches(source, targets, batch_size=64, steps=steps, seed=seed)
    fit(model, batches, lambda step: cosine_rate(step, steps, peak=3e-3, warmup=100), BOS, PAD, report=report)
    return model


def quality(model, pairs):
    source, _ = encode_pairs(pairs)
    results = [french_vocabulary().decode(ids) for ids in generate(model, source, BOS, EOS, max_len=MAX_WORDS + 1)]
    references = [list(pair.french) for pair in pairs]
    return exact_match(results, references), bleu(results, references)

@torch.no_grad()
def alignment(model, pairs):
    source, targets = encode_pairs(pairs)
    w = cross_attention_weights(model, source, shift_right(targets, BOS)).mean(dim=2) # layer,batch,t,s
    look = w.argmax(-1)
    right=torch.zeros(len(look)); n=0
    for r,p in enumerate(pairs):
        for f,e in p.alignment:
            right += look[:, r, f]==e; n+=1
    return right/n

if __name__ == "__main__":
    import time
    torch.set_num_threads(1)
    for seed in (0, 1):
        t=time.process_time(); make_data(); encode_pairs(make_data().train); print("data", time.process_time()-t)
        t=time.process_time()
        m = train_translator(seed, report=print_progress(200))
        print(seed, time.process_time()-t, sum(p.numel() for p in m.parameters()))
        t=time.process_time()
        print(quality(m, make_data().test), quality(m, make_data().unseen), alignment(m, make_data().test)); print(time.process_time()-t)
