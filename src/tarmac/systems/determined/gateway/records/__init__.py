"""Pure conversions of records of tarmac into dicts in Determined's form."""
