"""What Python calls: each kernel puts the passes together for one kind of result."""
