"""One module per trace format that pasta can import."""
