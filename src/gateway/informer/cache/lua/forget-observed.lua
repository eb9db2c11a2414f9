-- Removes the times of a field that is observed no longer.
--
-- KEYS[1] view HASH
-- KEYS[2] HASH of the field
-- ARGV[1] ID of the writer: refused when the view carries another
--
-- Answer: whether there were any, or -1 when the writer is another and nothing was done.

if redis.call('HGET', KEYS[1], 'writerId') ~= ARGV[1] then
  return -1
end
return redis.call('UNLINK', KEYS[2])
