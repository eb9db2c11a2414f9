-- The keys that have named a changed object as related, or may have.
--
-- KEYS[1] related index ZSET
-- ARGV[1] `apiVersion/Kind` of the object
-- ARGV[2] its namespace, or ''
-- ARGV[3] its name
--
-- Answer: the keys with a rule that has its name; then keys with a rule for its kind and namespace that has no names.

local named, selecting = {}, {}

-- The keys at the end of the members that begin with this text.
local function collect(start, into)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], '[' .. start, '(' .. start .. '\255')) do
    into[#into + 1] = string.sub(member, #start + 1)
  end
end

local namespaces = ARGV[2] == '' and { '' } or { '', ARGV[2] }
for _, namespace in ipairs(namespaces) do
  local place = ARGV[1] .. '\n' .. namespace .. '\n'
  collect(place .. ARGV[3] .. '\n', named)
  collect(place .. '\n', selecting)
end
return { named, selecting }
