"""Answers as text for people: tables, pages, messages, errors."""
