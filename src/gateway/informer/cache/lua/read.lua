-- Reads the first of some fields of a view's HASH, no more bytes than Redis should hold in memory for one answer.
--
-- KEYS[1] objects or entries HASH
-- ARGV[1] bytes; the first field is read whatever its size
-- then    fields: keys of objects
--
-- Answer: the values of the first fields, nil where there is none.

local left, count = tonumber(ARGV[1]), 0
for at = 2, #ARGV do
  left = left - redis.call('HSTRLEN', KEYS[1], ARGV[at])
  if left < 0 and count > 0 then break end
  count = count + 1
end
return redis.call('HMGET', KEYS[1], unpack(ARGV, 2, count + 1))
