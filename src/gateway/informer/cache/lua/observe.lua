-- Records the values of observed fields of objects that are in a view already: the pass after a field is declared.
--
-- KEYS[1] view    HASH
-- KEYS[2] entries HASH  key -> version \n ...
-- ARGV[1] ID of the writer: refused when the view carries another
-- ARGV[2] prefix of a field's HASH: key -> time uid value (same hash tag as KEYS)
-- ARGV[3] the present time, in milliseconds
-- ARGV[4] number of fields, then the fields
-- then    for each object: key, version as it was read, and of each field 'uid value', 'uid \n item \n ...', or '' to
--         leave it
--
-- Answer: number of values that were new, or -1 when the writer is another and nothing was done. An object that has
-- changed since it was read is left alone: the writer that changed it knew of the fields.

if redis.call('HGET', KEYS[1], 'writerId') ~= ARGV[1] then
  return -1
end

-- include observed-now

local fields = tonumber(ARGV[4])
local recorded = 0
for at = 5 + fields, #ARGV, 2 + fields do
  local key, version = ARGV[at], ARGV[at + 1]
  local entry = redis.call('HGET', KEYS[2], key)
  if entry and string.sub(entry, 1, #version + 1) == version .. '\n' then
    for nth = 1, fields do
      local hash, value = ARGV[2] .. ARGV[4 + nth], ARGV[at + 1 + nth]
      local now = value ~= '' and observed_now(redis.call('HGET', hash, key), value, ARGV[3])
      if now then
        redis.call('HSET', hash, key, now)
        recorded = recorded + 1
      end
    end
  end
end
return recorded
