"""The paper's ablation studies, at a size that one machine can train."""
