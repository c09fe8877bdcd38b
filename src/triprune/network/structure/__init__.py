"""What a network is made of: graphs, regions and the blocks they make, found by structure."""
