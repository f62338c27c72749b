"""Losses of torch.nn.functional."""

import torch
import torch.nn.functional as F

from row import Row, bools, fixed, integers, normal, positive, within

X, Y = normal(6, 5), integers(0, 5, 6)
PM = lambda *shape: lambda random: torch.tensor(random.integers(0, 2, shape) * 2.0 - 1).float()


def probabilities(*shape):
    return lambda random: torch.softmax(torch.tensor(random.standard_normal(shape)).float(), 1)


ROWS = {
    "cross_entropy": Row([X, Y], F.cross_entropy),
    "cross_entropy of int32": Row([X, integers(0, 5, 6)], F.cross_entropy),
    "cross_entropy with weights": Row([X, Y, positive(5)], lambda x, y, w: F.cross_entropy(x, y, w.detach())),
    "cross_entropy ignoring": Row([X, fixed([0, 2, -100, 4, 2, -100])], F.cross_entropy),
    "cross_entropy ignoring a class": Row([X, fixed([0, 2, 2, 4, 2, 1]), positive(5)],
                                          lambda x, y, w: F.cross_entropy(x, y, w.detach(), ignore_index=2)),
    "cross_entropy sum": Row([X, Y], lambda x, y: F.cross_entropy(x, y, reduction="sum")),
    "cross_entropy none": Row([X, fixed([0, 2, -100, 4, 2, 1])], lambda x, y: F.cross_entropy(x, y, reduction="none")),
    "cross_entropy smoothed": Row([X, Y], lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1)),
    "cross_entropy smoothed with weights": Row(
        [X, fixed([0, 2, -100, 4, 2, 1]), positive(5)], lambda x, y, w: F.cross_entropy(x, y, w.detach(), label_smoothing=0.2)),
    "cross_entropy smoothed none": Row(
        [X, fixed([0, 2, -100, 4, 2, 1])], lambda x, y: F.cross_entropy(x, y, reduction="none", label_smoothing=0.2)),
    "cross_entropy of images": Row([normal(2, 3, 4, 2), integers(0, 3, 2, 4, 2)], F.cross_entropy),
    "cross_entropy without a batch": Row([normal(4), fixed(2)], F.cross_entropy),
    "cross_entropy of probabilities": Row([X, probabilities(6, 5)], F.cross_entropy),
    "cross_entropy of probabilities with weights": Row(
        [X, probabilities(6, 5), positive(5)], lambda x, y, w: F.cross_entropy(x, y, w.detach(), label_smoothing=0.1)),
    "cross_entropy of image probabilities": Row([normal(2, 3, 4), probabilities(2, 3, 4)],
                                                lambda x, y: F.cross_entropy(x, y, reduction="sum")),
    "nll_loss": Row([X, Y], F.nll_loss),
    "nll_loss with weights": Row([X, fixed([0, 2, -100, 4, 2, 1]), positive(5)], lambda x, y, w: F.nll_loss(x, y, w.detach())),
    "nll_loss of sequences": Row([normal(2, 3, 4), integers(0, 3, 2, 4)], lambda x, y: F.nll_loss(x, y, reduction="sum")),
    "mse_loss": Row([X, normal(6, 5)], F.mse_loss),
    "mse_loss none": Row([X, normal(6, 5)], lambda x, y: F.mse_loss(x, y, reduction="none")),
    "l1_loss": Row([X, normal(6, 5)], lambda x, y: F.l1_loss(x, y, reduction="sum")),
    "smooth_l1_loss": Row([X, normal(6, 5)], F.smooth_l1_loss),
    "smooth_l1_loss with beta": Row([X, normal(6, 5)], lambda x, y: F.smooth_l1_loss(x, y, beta=0.4)),
    "smooth_l1_loss with beta 0": Row([X, normal(6, 5)], lambda x, y: F.smooth_l1_loss(x, y, beta=0.0)),
    "huber_loss": Row([X, normal(6, 5)], lambda x, y: F.huber_loss(x, y, delta=0.7)),
    "binary_cross_entropy": Row([within(0.05, 0.95, 6, 5), within(0, 1, 6, 5)],
                                lambda x, y: F.binary_cross_entropy(x, y.detach())),
    "binary_cross_entropy of certainties": Row([fixed([0.0, 1.0, 0.5]), fixed([0.0, 1.0, 0.25])],
                                               lambda x, y: F.binary_cross_entropy(x, y.detach())),
    "binary_cross_entropy of mistakes": Row([fixed([0.0, 1.0]), fixed([1.0, 0.0])],
                                            lambda x, y: F.binary_cross_entropy(x, y.detach())),
    "binary_cross_entropy with weights": Row([within(0.05, 0.95, 6), within(0, 1, 6), positive(6)],
                                             lambda x, y, w: F.binary_cross_entropy(x, y.detach(), w.detach(), reduction="sum")),
    "binary_cross_entropy_with_logits": Row([X, within(0, 1, 6, 5)], F.binary_cross_entropy_with_logits),
    "binary_cross_entropy_with_logits with weights": Row(
        [X, within(0, 1, 6, 5), positive(5), positive(5)],
        lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y.detach(), w.detach(), pos_weight=p.detach())),
    "kl_div": Row([normal(6, 5), probabilities(6, 5)], lambda x, y: F.kl_div(x, y.detach(), reduction="batchmean")),
    "kl_div mean": Row([normal(6, 5), fixed([[0.0, 1.0, 0.0, 0.5, 0.5]] * 6)], lambda x, y: F.kl_div(x, y.detach())),
    "kl_div of logs": Row([normal(6, 5), normal(6, 5)], lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True)),
    "cosine_similarity": Row([X, normal(6, 5)], F.cosine_similarity),
    "cosine_similarity over dim 0": Row([X, normal(6, 5)], lambda x, y: F.cosine_similarity(x, y, 0)),
    "soft_margin_loss": Row([X, PM(6, 5)], lambda x, y: F.soft_margin_loss(x, y.detach())),
    "margin_ranking_loss": Row([normal(6), normal(6), PM(6)], lambda a, b, y: F.margin_ranking_loss(a, b, y.detach(), margin=0.3)),
    "hinge_embedding_loss": Row([normal(6), PM(6)], lambda x, y: F.hinge_embedding_loss(x, y.detach(), margin=0.8)),
    "cosine_embedding_loss": Row([X, normal(6, 5), PM(6)], lambda a, b, y: F.cosine_embedding_loss(a, b, y.detach(), margin=0.1)),
    "triplet_margin_loss": Row([X, normal(6, 5), normal(6, 5)], F.triplet_margin_loss),
    "pairwise_distance": Row([normal(4, 5), normal(4, 5)], lambda a, b: F.pairwise_distance(a, b, keepdim=True)),
    "multi_margin_loss": Row([normal(4, 5), integers(0, 5, 4)], F.multi_margin_loss),
    "multi_margin_loss with weights": Row([normal(4, 5), integers(0, 5, 4), positive(5)],
        lambda x, y, w: F.multi_margin_loss(x, y, p=2, margin=0.5, weight=w.detach(), reduction="none")),
    "multilabel_soft_margin_loss": Row([normal(4, 5), integers(0, 2, 4, 5, dtype=torch.float32), positive(5)],
        lambda x, y, w: F.multilabel_soft_margin_loss(x, y, w.detach(), reduction="sum")),
    "poisson_nll_loss": Row([normal(4, 5), within(0, 6, 4, 5)], lambda x, y: F.poisson_nll_loss(x, y.detach())),
    "poisson_nll_loss full": Row([positive(4, 5), within(0, 6, 4, 5)],
        lambda x, y: F.poisson_nll_loss(x, y.detach(), log_input=False, full=True, reduction="sum")),
    "gaussian_nll_loss": Row([normal(4, 5), normal(4, 5), positive(4, 5)], F.gaussian_nll_loss),
    "gaussian_nll_loss of one variance": Row([normal(4, 5), normal(4, 5), positive(4)],
        lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True, eps=0.5, reduction="sum")),
    "ctc_loss": Row([normal(9, 3, 5), fixed([[1, 2, 2, 3], [4, 1, 0, 0], [3, 3, 3, 3]]), fixed([9, 7, 8]), fixed([4, 2, 3])],
        lambda x, y, a, b: F.ctc_loss(x.log_softmax(2), y, a, b), tolerance=2e-5),
    "ctc_loss none": Row([normal(4, 3, 5), fixed([[1, 2, 2, 3], [3, 1, 0, 0], [3, 3, 3, 3]]), fixed([4, 3, 4]), fixed([2, 0, 4])],
        lambda x, y, a, b: F.ctc_loss(x.log_softmax(2), y, a, b, blank=4, reduction="none", zero_infinity=True), tolerance=2e-5),
}
