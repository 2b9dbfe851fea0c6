"""Why did this token get this value? One HTML file (`ktae.write_report`), or a group as text."""
