"""Written by `make build` from solutions/: stem, title, minutes and written points of each notebook."""

CONTENTS = (
    ("00_start_here", "0 · Start here", 115, 2),
    ("01_dot_product_attention", "1 · Dot-product attention", 145, 2),
    ("02_masks", "2 · Masks: who may look at whom", 140, 2),
    ("03_positions", "3 · Positions: telling attention where a token stands", 150, 2),
    ("04_multi_head_attention", "4 · Multi-head attention: several looks at once", 150, 2),
    ("05_sublayers", "5 · Sub-layers", 150, 6),
    ("06_encoder_decoder", "6 · Encoder and decoder: the parts become two stacks", 120, 2),
    ("07_transformer", "7 · The Transformer", 150, 2),
    ("08_training", "8 · Training", 150, 6),
    ("09_decoding", "9 · Decoding: from probabilities to a sentence", 150, 2),
    ("10_classification", "10 · Classification: an encoder that reads", 145, 4),
    ("11_language_model", "11 · Language models: a decoder that writes", 140, 4),
    ("12_speech", "12 · Speech: a Transformer that listens", 140, 4),
    ("13_long_sequences", "13 · Long sequences: the price of looking at everything", 150, 2),
    ("14_you_are_the_grader", "14 · You are the grader", 140, 4),
)
