import torch

torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.Linear(1000, 12_000), torch.nn.ReLU(), torch.nn.Linear(12_000, 1000))
adam = torch.optim.Adam(network.parameters())
points, wanted = torch.randn(512, 1000), torch.randn(512, 1000)
for _ in range(2):
    adam.zero_grad()
    torch.nn.functional.mse_loss(network(points), wanted).backward()
    adam.step()
assert sum(parameter.numel() for parameter in network.parameters()) == 24_013_000
