"""The result of an audit: verdict, findings and conditions, as text, JSON, HTML, metrics and alerts."""
