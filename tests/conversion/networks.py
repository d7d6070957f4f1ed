"""Small networks with the structure of well-known ones, in the habits of the packages that publish them."""

import torch
import torch.nn.functional as F
from torch import nn


class NormAct(nn.BatchNorm2d):
    """Shaped like timm's BatchNormAct2d: a batch norm that drops and rectifies on its own."""

    def __init__(self, channels, act=nn.ReLU):
        super().__init__(channels)
        self.drop = nn.Identity()
        self.act = nn.Identity() if act is None else act()

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        x = F.batch_norm(x, mean, variance, self.weight, self.bias, self.training, self.momentum, self.eps)
        return self.act(self.drop(x))


class SqueezeExcite(nn.Module):
    """The gate of MobileNetV3 and EfficientNet: two 1x1 convolutions of a mean."""

    def __init__(self, channels):
        super().__init__()
        self.conv_reduce = nn.Conv2d(channels, 16, 1)
        self.conv_expand = nn.Conv2d(16, channels, 1)

    def forward(self, x):
        gate = x.mean((2, 3), keepdim=True)
        return x * self.conv_expand(F.relu(self.conv_reduce(gate))).sigmoid()


class InvertedResidual(nn.Module):
    """Of MobileNetV3 and EfficientNet: expand, depthwise, gate, project."""

    def __init__(self, channels, wide, norm, kernel=5):
        super().__init__()
        self.conv_pw = nn.Conv2d(channels, wide, 1, bias=False)
        self.bn1 = norm(wide)
        self.conv_dw = nn.Conv2d(wide, wide, kernel, padding=kernel // 2, groups=wide, bias=False)
        self.bn2 = norm(wide)
        self.se = SqueezeExcite(wide)
        self.conv_pwl = nn.Conv2d(wide, channels, 1, bias=False)
        self.bn3 = NormAct(channels, None)

    def forward(self, x):
        y = self.se(self.bn2(self.conv_dw(self.bn1(self.conv_pw(x)))))
        return x + self.bn3(self.conv_pwl(y))


def mobilenet_v3(act=nn.Hardswish):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), NormAct(16, act), InvertedResidual(16, 32, lambda c: NormAct(c, act)),
        InvertedResidual(16, 32, lambda c: NormAct(c, act), kernel=3), nn.Conv2d(16, 32, 1, bias=False),
        NormAct(32, act), nn.AdaptiveAvgPool2d(1), nn.Conv2d(32, 32, 1), act(), nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip


def efficientnet():
    return mobilenet_v3(nn.SiLU)


class ConvNeXtBlock(nn.Module):
    """A wide depthwise convolution, then dense layers on channels that come last."""

    def __init__(self, channels):
        super().__init__()
        self.conv_dw = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.fc1, self.act, self.fc2 = nn.Linear(channels, 32), nn.GELU(), nn.Linear(32, channels)
        self.gamma = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        y = self.norm(self.conv_dw(x).permute(0, 2, 3, 1))
        return x + (self.fc2(self.act(self.fc1(y))) * self.gamma).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, 4)
        self.stages = nn.ModuleList([ConvNeXtBlock(16), ConvNeXtBlock(16)])
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


class DenseUnit(nn.Module):
    """Norms and activations before the convolutions; the result joins the input."""

    def __init__(self, channels):
        super().__init__()
        self.norm1, self.relu1 = nn.BatchNorm2d(channels), nn.ReLU()
        self.conv1 = nn.Conv2d(channels, 16, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(16), nn.ReLU()
        self.conv2 = nn.Conv2d(16, 8, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))], 1)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv0, self.norm0, self.relu0 = nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16), nn.ReLU()
        self.units = nn.Sequential(DenseUnit(16), DenseUnit(24))
        self.norm5 = nn.BatchNorm2d(32)
        self.classifier = nn.Linear(32, 5)

    def forward(self, x):
        x = self.units(self.relu0(self.norm0(self.conv0(x))))
        x = F.adaptive_avg_pool2d(F.relu(self.norm5(x)), (1, 1))
        return self.classifier(torch.flatten(x, 1))


def vgg(norm=True):
    layers = []
    for before, after in ((3, 16), (16, 16), (16, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), *([nn.BatchNorm2d(after)] if norm else []), nn.ReLU(True)]
        layers += [nn.MaxPool2d(2)] if before == 16 else []
    head = [nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, 5)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), *head)


class Block(nn.Module):
    """Shaped like timm's BasicBlock: each norm is followed by an activation of its own, the last after the sum."""

    def __init__(self, before, after, stride=1):
        super().__init__()
        self.conv1, self.bn1, self.act1 = nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after), nn.ReLU()
        self.conv2, self.bn2, self.act2 = nn.Conv2d(after, after, 3, 1, 1), nn.BatchNorm2d(after), nn.ReLU()
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        return self.act2(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """With a forward that looks at its input, and so cannot be traced as a whole."""

    def __init__(self, traceable=True):
        super().__init__()
        self.traceable = traceable
        self.conv1, self.bn1, self.act1 = nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16), nn.ReLU()
        self.layer1 = nn.Sequential(Block(16, 16), Block(16, 32, 2))
        self.fc = nn.Linear(32, 5)

    def forward(self, x):
        if not self.traceable and x.sum() == 0:
            raise ValueError("nothing to see")
        x = self.layer1(self.act1(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


NETWORKS = {
    "resnet": ResNet,
    "resnet not traceable": lambda: ResNet(traceable=False),
    "densenet": DenseNet,
    "vgg": vgg,
    "vgg without norms": lambda: vgg(norm=False),
    "mobilenet v3": mobilenet_v3,
    "efficientnet": efficientnet,
    "convnext": ConvNeXt,
}
