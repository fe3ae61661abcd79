"""Accounts: the senders of requests, logging in, and the changes of accounts, tokens and memberships."""
