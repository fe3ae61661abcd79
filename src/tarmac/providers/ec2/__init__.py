"""The kind `ec2`: machines of Amazon's EC2, and of clouds with the same interface.

This package alone imports boto3, which is an extra (`ec2`), and only when a provider of this kind is used.
"""
